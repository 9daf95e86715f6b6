import { downloadCommand } from '../../diskcommands.ts';

export const imageDownload = downloadCommand('image');
