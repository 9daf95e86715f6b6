import { uploadCommand } from '../../diskcommands.ts';

export const isoUpload = uploadCommand('iso');
