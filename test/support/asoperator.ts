import { namespaces, objectNames } from '../../src/api/meta.ts';

/** kubectl's flag for what only the operator may do: pods with devices, with labels svc3.dev/*, with host ports beside VMs. */
export const asOperator = `--as=system:serviceaccount:${namespaces.system}:${objectNames.operatorServiceAccount}`;
