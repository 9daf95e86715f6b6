import { describeCommand } from '../../diskcommands.ts';

export const imageSetDescription = describeCommand('image');
