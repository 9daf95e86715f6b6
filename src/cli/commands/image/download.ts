import { downloadCommand } from '../../disktransfers.ts';

export const imageDownload = downloadCommand('image');
