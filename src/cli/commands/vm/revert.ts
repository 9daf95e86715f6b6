import { powerCommand } from '../../powercommand.ts';

export const vmRevert = powerCommand('revert', {
  summary: 'Revert a VM: discard the changes to its disk and boot fresh from the image',
  examples: [
    { line: 'svc3 vm revert build-1', summary: 'Throw away what it wrote' },
    { line: 'svc3 vm revert build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
  ],
});
