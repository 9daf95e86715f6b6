import { copyCommand } from '../../diskcommands.ts';

export const isoCopy = copyCommand('iso');
