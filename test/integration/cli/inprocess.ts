import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { openKubernetes, openServer } from '../../../src/cli/kubernetes.ts';
import { openIssuer } from '../../../src/cli/oidc/issuer.ts';
import { openHttp } from '../../../src/cli/service/http/service.ts';
import { run } from '../../unit/cli/environment.ts';
import type { Svc3 } from './process.ts';

/** The program without a process of its own, for suites of many command lines; its home is removed after the file. */
export function inProcess(): { svc3: Svc3; home: string } {
  const home = mkdtempSync(join(tmpdir(), 'svc3-cli-'));
  afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
  const svc3: Svc3 = (words, { env = {}, stdin = '' } = {}) =>
    run(words, { home, variables: env, stdin }, { openKubernetes, openServer, openHttp, openIssuer });
  return { svc3, home };
}
