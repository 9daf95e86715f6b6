import { getCommand } from '../../diskcommands.ts';

export const isoGet = getCommand('iso');
