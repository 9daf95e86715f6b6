import { expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { deployFieldsOf, writing } from '../../../src/usecases/writing.ts';

const refused = (error: Svc3Error) =>
  writing(() => Promise.reject(error), deployFieldsOf({ displayDPI: 96 }));

test("a refusal of kube-apiserver is said in the request's words, with all its fields", async () => {
  const causes = [
    { field: 'spec.nodeName', message: 'Forbidden: nodeName cannot change' },
    { field: 'spec.metadata[0].name', message: 'Invalid value: "?"' },
    { field: 'spec.display', message: 'Forbidden: give a value' },
  ];
  const error = new Svc3Error('Invalid', 'VM.svc3.dev "web" is invalid: [spec.nodeName: …]', {
    details: { name: 'web', causes },
  });
  await expect(refused(error)).rejects.toMatchObject({
    reason: 'Invalid',
    message:
      'node: Forbidden: nodeName cannot change; customVMMetadata: Invalid value: "?"; displayDPI: Forbidden: give a value',
    details: {
      name: 'web',
      causes: [{ field: 'node' }, { field: 'customVMMetadata' }, { field: 'displayDPI' }],
    },
  });
});

test('words of somebody else stay as they are', async () => {
  const causes = [{ field: 'spec.nodeName', message: 'is not there' }];
  await expect(
    refused(new Svc3Error('Invalid', 'the node is not there', { details: { causes } })),
  ).rejects.toMatchObject({ message: 'the node is not there', details: { causes: [{ field: 'node' }] } });
  await expect(refused(new Svc3Error('Forbidden', 'no'))).rejects.toMatchObject({ message: 'no' });
});
