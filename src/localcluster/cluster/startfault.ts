import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Svc3Error } from '../../errors.ts';
import type { Places } from '../shared/state.ts';

/** Why a cluster does not start of which this component has ended; with the way back where that may be the fault of what it keeps. */
export function startFault(places: Places, component: string, ended: Svc3Error): Svc3Error {
  if (component !== 'etcd' || !existsSync(join(places.state, 'controlplane', 'etcd', 'member'))) return ended;
  const named = places.name === 'default' ? '' : ` --name ${places.name}`;
  const way = `svc3 dev down${named} --purge begins anew, without what is in it.`;
  const message = `${ended.message}\nWhere that says that the state in ${places.state} cannot be read, ${way}`;
  return new Svc3Error('InternalError', message, { cause: ended });
}
