import { uploadCommand } from '../../disktransfers.ts';

export const imageUpload = uploadCommand('image');
