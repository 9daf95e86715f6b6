import type { Command } from '../command.ts';
import { copyCommand, deleteCommand, describeCommand, getCommand, listCommand } from '../diskcommands.ts';
import { downloadCommand, uploadCommand } from '../disktransfers.ts';

export const commands: readonly Command[] = [
  listCommand('iso'),
  getCommand('iso'),
  copyCommand('iso'),
  describeCommand('iso'),
  uploadCommand('iso'),
  downloadCommand('iso'),
  deleteCommand('iso'),
];
