import { powerCommand } from '../../powercommand.ts';

export const vmResume = powerCommand('resume', {
  summary: 'Resume a suspended VM',
  examples: [
    { line: 'svc3 vm resume build-1', summary: 'Go on where it was frozen' },
    { line: 'svc3 vm resume build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
  ],
});
