import { getCommand } from '../../diskcommands.ts';

export const imageGet = getCommand('image');
