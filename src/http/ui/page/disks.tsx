import { useState } from 'preact/hooks';
import type { ImageItem } from '../../../wire/schemas.ts';
import { call, inNamespace, pathOf } from './api.ts';
import { inOrder, namingColumns } from './columns.tsx';
import { CopyDisk, DescribeDisk, EmptyImage, Pull, type AskedOfDisk, type DiskKind } from './diskforms.tsx';
import { keyOf } from './items.ts';
import { Badge, Confirm, Table, type Column } from './parts.tsx';
import { type Rights, useRights } from './rights.ts';
import { timeOf } from './time.ts';
import type { Sendings } from './sendings.ts';
import { Uploads } from './uploads.tsx';

/** What differs between images and ISOs. */
const words = {
  images: {
    title: 'Images',
    one: 'image',
    upload: 'uploadImage',
    pull: 'pullImage',
    copy: 'copyImage',
    describe: 'describeImage',
    remove: 'deleteImage',
    download: 'downloadImage',
  },
  isos: {
    title: 'ISOs',
    one: 'iso',
    upload: 'uploadIso',
    pull: 'pullIso',
    copy: 'copyIso',
    describe: 'describeIso',
    remove: 'deleteIso',
    download: 'downloadIso',
  },
} as const;

/** Images or ISOs of the store, with the progress of those that are being made, and files on their way into it. */
export function Disks({
  kind,
  items,
  namespace,
  target,
  isKnown,
  rights,
  sendings,
}: {
  readonly kind: DiskKind;
  readonly items: ReadonlyMap<string, ImageItem>;
  readonly namespace: string;
  /** Where uploads go. */
  readonly target: string;
  readonly isKnown: boolean;
  readonly rights: Rights;
  readonly sendings: Sendings;
}) {
  const { title, one, upload: uploadRight, pull } = words[kind];
  const [asked, setAsked] = useState<AskedOfDisk>();
  const [making, setMaking] = useState<'pull' | 'empty'>();
  const close = (): void => setAsked(undefined);
  const closeMaking = (): void => setMaking(undefined);
  const columns: readonly Column<ImageItem>[] = [
    ...namingColumns<ImageItem>(namespace),
    { title: 'State', cell: (disk) => <State disk={disk} /> },
    { title: 'Size', cell: ({ size }) => size ?? '–' },
    { title: 'Description', cell: ({ description }) => description ?? '–' },
    { title: 'Created', cell: ({ createdAt }) => timeOf(createdAt) },
    {
      title: 'Actions',
      cell: (disk) => <Actions kind={kind} disk={disk} onAsk={setAsked} />,
    },
  ];
  const disks = inOrder(items);
  return (
    <main>
      <div class="title">
        <h1>{title}</h1>
        <span class="buttons">
          {rights.has(pull) ? (
            <button type="button" onClick={() => setMaking('pull')}>
              Pull …
            </button>
          ) : null}
          {kind === 'images' && rights.has('generateImage') ? (
            <button type="button" onClick={() => setMaking('empty')}>
              New empty image …
            </button>
          ) : null}
        </span>
      </div>
      {making === 'pull' ? <Pull kind={kind} namespace={target} onClose={closeMaking} /> : null}
      {making === 'empty' ? <EmptyImage namespace={target} onClose={closeMaking} /> : null}
      {asked?.what === 'copy' ? <CopyDisk kind={kind} disk={asked.disk} onClose={close} /> : null}
      {asked?.what === 'describe' ? <DescribeDisk kind={kind} disk={asked.disk} onClose={close} /> : null}
      {rights.has(uploadRight) ? (
        <Uploads key={kind} kind={one} namespace={target} sendings={sendings} />
      ) : null}
      <Table
        caption={title}
        columns={columns}
        items={disks}
        keyOf={keyOf}
        empty={isKnown ? 'There are none here.' : 'Loading …'}
      />
      {asked?.what === 'delete' ? (
        <Confirm
          title={`Delete ${asked.disk.name}?`}
          verb="Delete"
          act={() => call('DELETE', pathOf(kind, asked.disk))}
          onClose={close}
        >
          <p>
            It is gone for good. This is refused while a VM or a pool uses it, or it is being copied.
            Configurations that name it are no longer of use.
          </p>
        </Confirm>
      ) : null}
    </main>
  );
}

const verbs = [
  { what: 'copy', label: 'Copy' },
  { what: 'describe', label: 'Describe' },
] as const;

function Actions({
  kind,
  disk,
  onAsk,
}: {
  readonly kind: DiskKind;
  readonly disk: ImageItem;
  readonly onAsk: (asked: AskedOfDisk) => void;
}) {
  const { namespace, name, usable } = disk;
  const rights = useRights(namespace);
  const needs = words[kind];
  return (
    <span class="buttons">
      {rights.has(needs.download) && usable === true ? (
        <a download href={inNamespace(namespace, kind, name, 'download')} aria-label={`Download ${name}`}>
          Download
        </a>
      ) : null}
      {verbs
        .filter(({ what }) => rights.has(needs[what]))
        .map(({ what, label }) => (
          <button
            key={what}
            type="button"
            aria-label={`${label} ${name}`}
            onClick={() => onAsk({ what, disk })}
          >
            {label} …
          </button>
        ))}
      {rights.has(needs.remove) ? (
        <button
          type="button"
          class="danger"
          aria-label={`Delete ${name}`}
          onClick={() => onAsk({ what: 'delete', disk })}
        >
          Delete …
        </button>
      ) : null}
    </span>
  );
}

function State({ disk: { name, state, progress, errorMessage } }: { readonly disk: ImageItem }) {
  return (
    <>
      <Badge text={state} />
      {state === 'Updating' && progress !== undefined ? (
        <progress value={progress} max={100} aria-label={`Progress of ${name}`} />
      ) : null}
      {errorMessage === undefined ? null : <p class="why">{errorMessage}</p>}
    </>
  );
}
