import { powerCommand } from '../../powercommand.ts';

export const vmStop = powerCommand('stop', {
  summary: 'Stop a VM: shut its guest down, and switch it off where that takes too long',
  examples: [
    { line: 'svc3 vm stop build-1', summary: 'Stop it and wait until it has stopped' },
    { line: 'svc3 vm stop build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
  ],
});
