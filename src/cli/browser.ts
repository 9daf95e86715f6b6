import { spawn } from 'node:child_process';

/** Opens an address in the user's browser, where there is one. */
export function openBrowser(url: string): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(program, [url], { detached: true, stdio: 'ignore' });
  // The address stands there already: whoever has no browser opens it elsewhere.
  child.once('error', () => {});
  child.unref();
}
