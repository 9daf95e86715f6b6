import { remoteListCommand } from '../../diskcommands.ts';

export const remoteIsoList = remoteListCommand('iso');
