import { uploadCommand } from '../../diskcommands.ts';

export const imageUpload = uploadCommand('image');
