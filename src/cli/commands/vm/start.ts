import { powerCommand } from '../../powercommand.ts';

export const vmStart = powerCommand('start', {
  summary: 'Start a stopped VM',
  examples: [
    { line: 'svc3 vm start build-1', summary: 'Start it and wait until it runs' },
    { line: 'svc3 vm start build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
  ],
});
