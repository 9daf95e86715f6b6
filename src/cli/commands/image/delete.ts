import { deleteCommand } from '../../diskcommands.ts';

export const imageDelete = deleteCommand('image');
