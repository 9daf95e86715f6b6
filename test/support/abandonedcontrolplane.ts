/** Starts a control plane in the folder of the first argument, says so and then does nothing: to be killed. */
import { startControlPlane } from '../../src/localcluster/controlplane/controlplane.ts';
import { ensureTools } from './controlplane.ts';

const tools = await ensureTools('controlplane');
await startControlPlane({ dir: process.argv[2] ?? '', tools });
process.stdout.write('up\n');
setInterval(() => {}, 60_000);
