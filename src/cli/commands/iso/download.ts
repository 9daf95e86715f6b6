import { downloadCommand } from '../../disktransfers.ts';

export const isoDownload = downloadCommand('iso');
