/** Disk images and install media in the remote registries of the installation. */
import type { Command } from '../command.ts';
import { remoteListCommand, remotePullCommand } from '../diskcommands.ts';

export const commands: readonly Command[] = [
  remoteListCommand('image'),
  remotePullCommand('image'),
  remoteListCommand('iso'),
  remotePullCommand('iso'),
];
