import { actionsGroup } from '../../api/meta.ts';

export const uploadTag = 'Uploads';

/** Who may upload an image may upload an ISO. */
export const uploadPermission = {
  kind: 'checked',
  group: actionsGroup,
  resource: 'images',
  subresource: 'upload',
  verb: 'create',
  scope: 'namespace',
} as const;
