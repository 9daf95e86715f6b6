import { copyCommand } from '../../diskcommands.ts';

export const imageCopy = copyCommand('image');
