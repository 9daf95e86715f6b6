import { powerCommand } from '../../powercommand.ts';

export const vmRestart = powerCommand('restart', {
  summary: 'Restart a VM: shut its guest down and start it again with the settings that wait for it',
  examples: [
    { line: 'svc3 vm restart build-1', summary: 'After a change of its CPUs, say' },
    { line: 'svc3 vm restart build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
  ],
});
