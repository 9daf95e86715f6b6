import { listCommand } from '../../diskcommands.ts';

export const isoList = listCommand('iso');
