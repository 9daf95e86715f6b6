import { uploadCommand } from '../../disktransfers.ts';

export const isoUpload = uploadCommand('iso');
