import { describeCommand } from '../../diskcommands.ts';

export const isoSetDescription = describeCommand('iso');
