import { deleteCommand } from '../../diskcommands.ts';

export const isoDelete = deleteCommand('iso');
