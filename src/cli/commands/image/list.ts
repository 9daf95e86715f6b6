import { listCommand } from '../../diskcommands.ts';

export const imageList = listCommand('image');
