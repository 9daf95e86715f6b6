import { showAddress } from '../browser.ts';
import { command, type Command } from '../command.ts';

const ui = command({
  path: ['ui'],
  summary: 'Show the address of the web page, signed in as you, or open it',
  description:
    'The address holds a code that signs one browser in, once and within a minute; the session ends with your token. Who has the address first is you: give it to nobody. Where the API has a certificate authority of its own (caFile), its file and fingerprint are said on standard error.',
  options: {
    open: { kind: 'flag', summary: 'Open it in the browser' },
  },
  examples: [
    { line: 'svc3 ui', summary: 'Address for a browser' },
    { line: 'svc3 ui --open', summary: 'Open the browser' },
  ],
  async run(context, { options }) {
    const url = await (await context.service()).pageUrl();
    await showAddress(context, url, options.open);
  },
});

export const commands: readonly Command[] = [ui];
