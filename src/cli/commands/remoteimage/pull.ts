import { remotePullCommand } from '../../diskcommands.ts';

export const remoteImagePull = remotePullCommand('image');
