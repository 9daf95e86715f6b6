/** Whether kube-apiserver serves, asked through its loopback port. */
import { readFile } from 'node:fs/promises';
import { request } from 'node:https';

/** True when `/readyz` answers 200 to a caller without a name. */
export async function isServing(port: number, caFile: string): Promise<boolean> {
  const ca = await readFile(caFile);
  return new Promise((resolve) => {
    const call = request(
      { host: '127.0.0.1', port, path: '/readyz', ca, agent: false, timeout: 5_000 },
      (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      },
    );
    call.once('timeout', () => call.destroy());
    call.once('error', () => resolve(false));
    call.end();
  });
}
