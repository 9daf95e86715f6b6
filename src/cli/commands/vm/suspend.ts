import { powerCommand } from '../../powercommand.ts';

export const vmSuspend = powerCommand('suspend', {
  summary: 'Suspend a VM: freeze its guest where it is',
  examples: [
    { line: 'svc3 vm suspend build-1', summary: 'Freeze it' },
    { line: 'svc3 vm suspend build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
  ],
});
