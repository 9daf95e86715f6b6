import { remotePullCommand } from '../../diskcommands.ts';

export const remoteIsoPull = remotePullCommand('iso');
