import type { RemovedRow } from './row.ts';

type Method = RemovedRow['method'];

function removed(methods: readonly Method[], path: string, successor: string): RemovedRow[] {
  return methods.map((method) => ({ kind: 'removed', method, path, successor }));
}

const users = 'Removed; cluster access management replaces it';
const grouping = 'Removed; grouping is done with namespaces and role bindings';
const allUsers =
  'Removed; GET NS/vms and GET NS/vmconfigs list all VMs and configurations of all users in the namespace';
const disks = 'Removed; attached disks no longer exist';
const states = 'Removed; VM states no longer exist';
const sandbox = 'Removed; sandboxing is done with namespaces';
const plain = 'Removed';

/** Rows of the mapping table without a successor that could do the same (names: "Gateway"). */
export const removedRows: readonly RemovedRow[] = [
  ...removed(['GET', 'POST', 'DELETE', 'PUT'], '/users', users),
  ...removed(['DELETE'], '/users/{user}', users),
  ...removed(['POST'], '/users/password', plain),
  ...removed(['POST'], '/users/groups/{group}', grouping),
  ...removed(
    ['POST'],
    '/token',
    'Removed; users: CLI svc3 user get-token; service accounts: POST NS/serviceaccounts/{serviceaccount}/token',
  ),
  ...removed(['DELETE'], '/token', 'Removed; tokens expire'),
  ...removed(['GET'], '/token', plain),
  ...removed(['GET'], '/resources/vm/list/all', allUsers),
  ...removed(['GET'], '/resources/vm/list/{user}', allUsers),
  ...removed(['POST'], '/resources/vm/list-disks', disks),
  ...removed(['POST'], '/resources/vm/attach-disk', disks),
  ...removed(['POST'], '/resources/vm/configs/save-state', states),
  ...removed(['POST', 'DELETE'], '/resources/vm/configs/{vmconfig}/delete-state', states),
  ...removed(['GET'], '/resources/node/list/all', 'Removed; use GET NS/nodes'),
  ...removed(['GET'], '/resources/node/status/{node}', 'Removed; use GET NS/nodes'),
  ...removed(['GET'], '/resources/ports', plain),
  ...removed(['POST', 'DELETE'], '/resources/node/sandbox', sandbox),
  ...removed(['POST'], '/resources/node/groups/{group}', grouping),
  ...removed(
    ['POST'],
    '/resources/image/rename',
    'Removed; use POST NS/images/{image}/description to set a custom description',
  ),
  ...removed(['POST'], '/resources/image/resize', 'No endpoint; use CLI svc3 vm resize'),
  ...removed(
    ['GET'],
    '/resources/image/checksum/{image}',
    'No endpoint; GET NS/images shows the state of an image',
  ),
  ...removed(
    ['POST'],
    '/resources/iso/rename',
    'Removed; use POST NS/isos/{iso}/description to set a custom description',
  ),
  ...removed(['GET', 'POST', 'DELETE'], '/resources/kube-account', plain),
  ...removed(['POST'], '/resources/kube-account/regenerate', plain),
  ...removed(['GET'], '/resources/kube-account/download', plain),
  ...removed(['POST'], '/logs/query', plain),
  ...removed(['DELETE'], '/logs', plain),
  ...removed(['GET'], '/health-check', plain),
  ...removed(['GET'], '/version', 'Removed; GET /api/v1/cluster-info says the version'),
  ...removed(
    ['GET'],
    '/validation-requirements',
    'Removed; user credentials are handled outside the service',
  ),
  ...removed(['GET'], '/validate-license-key', 'Removed; license keys are obsolete'),
  ...removed(['GET'], '/default-base-image', plain),
];
