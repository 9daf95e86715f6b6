/**
 * Runners of guests that wait, played by this process: all pods of simulated nodes have the address of loopback. It cannot show how long a guest takes
 * to go on, nor that it does; test/bench/warmvms.ts and test/life/pool.test.ts do.
 */
import { once } from 'node:events';
import { createServer } from 'node:https';
import { text } from 'node:stream/consumers';
import { type ClaimRequest, runnerPort } from '../../src/api/runner.ts';
import { createCertificate } from '../../src/runner/certificate.ts';
import { runnerState } from '../unit/controllers/vm/builders.ts';

export interface WaitingRunners {
  /** Claims that a pod has taken; one that came twice for the same VM counts once. */
  claims(): number;
  /** Claims of pods that are another VM's already. */
  conflicts(): number;
  stop(): Promise<void>;
}

/** They take every claim, and answer for the VM that the caller's token names. */
export async function startWaitingRunners(): Promise<WaitingRunners> {
  const { key, certificate: cert } = createCertificate('bench');
  const vmOf = new Map<string, string>();
  let conflicts = 0;
  const server = createServer({ key, cert }, (request, response) => {
    void text(request).then((body) => {
      let vmUid = claimsOf(request.headers.authorization).vmUid;
      if (request.url === '/v1/claim') {
        const { podUid, vm } = JSON.parse(body) as ClaimRequest;
        if ((vmOf.get(podUid) ?? vm.uid) !== vm.uid) conflicts += 1;
        vmOf.set(podUid, vm.uid);
        vmUid = vm.uid;
      }
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(runnerState({ vmUid, guestReady: true })));
    });
  });
  server.listen(runnerPort, '127.0.0.1');
  await once(server, 'listening');
  return {
    claims: () => vmOf.size,
    conflicts: () => conflicts,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function claimsOf(authorization = ''): { vmUid: string } {
  const [, claims = ''] = authorization.split('.');
  return JSON.parse(Buffer.from(claims, 'base64url').toString()) as { vmUid: string };
}
