import { useEffect, useState } from 'preact/hooks';
import type { ImageItem, RemoteItem } from '../../../wire/schemas.ts';
import { call, inNamespace, messageOf, pathOf } from './api.ts';
import { FormDialog, parameter, textOf } from './formdialog.tsx';
import { Problem } from './parts.tsx';

export type DiskKind = 'images' | 'isos';

/** What somebody is about to do to a disk of the store. */
export interface AskedOfDisk {
  readonly what: 'copy' | 'describe' | 'delete';
  readonly disk: ImageItem;
}

export function CopyDisk({
  kind,
  disk,
  onClose,
}: {
  readonly kind: DiskKind;
  readonly disk: ImageItem;
  readonly onClose: () => void;
}) {
  return (
    <FormDialog
      title={`Copy ${disk.name}`}
      schema="CopyRequest"
      verb="Copy"
      send={(body) => call('POST', pathOf(kind, disk, { verb: 'copy' }), body)}
      onClose={onClose}
    >
      <p>The copy is one of its own: what becomes of one of the two does not touch the other.</p>
    </FormDialog>
  );
}

export function DescribeDisk({
  kind,
  disk,
  onClose,
}: {
  readonly kind: DiskKind;
  readonly disk: ImageItem;
  readonly onClose: () => void;
}) {
  return (
    <FormDialog
      title={`Describe ${disk.name}`}
      schema="DescriptionRequest"
      initial={new Map([['description', disk.description ?? '']])}
      verb="Describe"
      // What was emptied is to be empty.
      send={(body) => call('POST', pathOf(kind, disk, { verb: 'description' }), { description: '', ...body })}
      onClose={onClose}
    />
  );
}

export function EmptyImage({
  namespace,
  onClose,
}: {
  readonly namespace: string;
  readonly onClose: () => void;
}) {
  return (
    <FormDialog
      title={`New empty image in ${namespace}`}
      schema="ImageGenerateRequest"
      verb="Create"
      send={(body) => call('POST', inNamespace(namespace, 'images'), body)}
      onClose={onClose}
    >
      <p>A disk with nothing on it, to install a system from an ISO on.</p>
    </FormDialog>
  );
}

const remotes = {
  images: { listing: 'remoteimages', parameter: 'remoteimage', one: 'image' },
  isos: { listing: 'remoteisos', parameter: 'remoteiso', one: 'ISO' },
} as const;

/** Brings what a registry has into the store; the registries of the installation are asked once for what they have. */
export function Pull({
  kind,
  namespace,
  onClose,
}: {
  readonly kind: DiskKind;
  readonly namespace: string;
  readonly onClose: () => void;
}) {
  const { listing, parameter: name, one } = remotes[kind];
  const [known, setKnown] = useState<readonly string[]>([]);
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    call<{ items: readonly RemoteItem[]; incomplete?: readonly string[] }>(
      'GET',
      inNamespace(namespace, listing),
    )
      .then(({ body: { items, incomplete = [] } }) => {
        setKnown(items.map(({ name: reference }) => reference));
        setProblem(incomplete.join(' '));
      })
      // A reference can be given all the same.
      .catch((error: unknown) => setProblem(messageOf(error)));
  }, [namespace, listing]);
  return (
    <FormDialog
      title={`Pull an ${one} into ${namespace}`}
      schema="PullRequest"
      before={[parameter(name, 'Reference', 'Such as registry.example.com/team/debian:12.')]}
      suggestions={{ [name]: known }}
      verb="Pull"
      send={({ [name]: reference, ...body }) =>
        call('POST', inNamespace(namespace, listing, textOf(reference), 'pull'), body)
      }
      onClose={onClose}
    >
      <Problem text={problem} />
    </FormDialog>
  );
}
