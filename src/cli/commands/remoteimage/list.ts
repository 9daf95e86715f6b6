import { remoteListCommand } from '../../diskcommands.ts';

export const remoteImageList = remoteListCommand('image');
