import { useEffect, useState } from 'preact/hooks';
import type { PowerCommand } from '../../../wire/powercommands.ts';
import type { Explanation, VmItem } from '../../../wire/vmschemas.ts';
import { ApiError, call, inNamespace, messageOf } from './api.ts';
import { Console } from './console.tsx';
import { Log } from './log.tsx';
import { Act, Badge, Confirm, Dialog, Fact, Problem, Table, type Column } from './parts.tsx';
import { linkTo } from './place.ts';
import { Usage } from './plots.tsx';
import { mayNot, type Rights, useRights } from './rights.ts';
import { titleOf } from './schema.ts';
import { Serial } from './serial.tsx';
import { consequences, fittingCommands } from './verbs.ts';

/** How often what the stream does not tell of, as Events, is looked at again. */
const lookEveryMs = 5_000;

interface Explained {
  readonly explanation?: Explanation;
  /** Why it is not known, or not as new as it should be. */
  readonly problem?: string;
}

/** Why the VM is as it is, again whenever it changes. */
function useExplanation(namespace: string, name: string, vm: VmItem | undefined): Explained {
  const [explained, setExplained] = useState<Explained>({});
  useEffect(() => {
    if (vm === undefined) return undefined;
    let isOver = false;
    const look = (): void => {
      if (document.hidden) return;
      call<Explanation>('GET', inNamespace(namespace, 'vms', name, 'explain'))
        .then(({ body }) => {
          if (!isOver) setExplained({ explanation: body });
        })
        .catch((error: unknown) => {
          // The stream says when the VM is gone.
          if (isOver || (error instanceof ApiError && error.status === 404)) return;
          setExplained((known) => Object.assign({}, known, { problem: messageOf(error) }));
        });
    };
    look();
    const timer = setInterval(look, lookEveryMs);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [namespace, name, vm]);
  return explained;
}

type Condition = Explanation['conditions'][number];
type Event = Explanation['events'][number];
type Verdict = NonNullable<Explanation['nodes']>[number];

const conditionColumns: readonly Column<Condition>[] = [
  { title: 'Condition', cell: ({ type }) => type },
  { title: 'Status', cell: ({ status }) => status },
  { title: 'Reason', cell: ({ reason }) => reason },
  { title: 'Message', cell: ({ message }) => message },
  { title: 'Since', cell: ({ lastTransitionTime }) => timeOf(lastTransitionTime) },
];
const eventColumns: readonly Column<Event>[] = [
  { title: 'Time', cell: ({ time }) => timeOf(time) },
  { title: 'Type', cell: ({ type }) => type },
  { title: 'Reason', cell: ({ reason }) => reason },
  { title: 'Message', cell: ({ message }) => message },
];
const nodeColumns: readonly Column<Verdict>[] = [
  { title: 'Node', cell: ({ node }) => node },
  { title: 'Fits', cell: ({ fits }) => (fits ? 'Yes' : 'No') },
  { title: 'Reasons', cell: ({ reasons }) => reasons.join('; ') },
];

/** Only where the VM has a memory to go on from. */
const startColumn: Column<Verdict> = { title: 'Start', cell: ({ warmStart }) => startText(warmStart) };

function startText(start: Verdict['warmStart']): string {
  if (start === undefined) return '';
  return start.fromMemory ? 'warm' : `cold: ${start.message}`;
}

function columnsFor(nodes: readonly Verdict[]): readonly Column<Verdict>[] {
  const hasStart = nodes.some(({ warmStart }) => warmStart !== undefined);
  return hasStart ? [...nodeColumns, startColumn] : nodeColumns;
}

export function timeOf(text: string | undefined): string {
  if (text === undefined) return '–';
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toLocaleString();
}

function portsOf({ ports = [] }: VmItem): string {
  return ports
    .map(
      ({ nodePort, guestPort, protocol }) =>
        `${nodePort === undefined ? '' : `${nodePort} → `}${guestPort}/${protocol}`,
    )
    .join(', ');
}

/** One VM: what it is, why it is so, what may be done with it, its screen. */
export function OneVm({
  namespace,
  name,
  vm,
  isKnown,
}: {
  readonly namespace: string;
  readonly name: string;
  readonly vm: VmItem | undefined;
  readonly isKnown: boolean;
}) {
  const { explanation, problem } = useExplanation(namespace, name, vm);
  const [done, setDone] = useState('');
  const rights = useRights(namespace);
  if (vm === undefined)
    return (
      <main>
        <h1>{name}</h1>
        <p>{absenceOf(namespace, name, isKnown, rights)}</p>
        <p role="status" class="help">
          {done}
        </p>
        <a href={linkTo('vms')}>All VMs</a>
      </main>
    );
  const { conditions = [], events = [], nodes = [], warnings = [] } = explanation ?? {};
  return (
    <main>
      <div class="title">
        <h1>{name}</h1>
        <Badge text={vm.status} />
      </div>
      <p role="status" class="unseen">
        {name} is {vm.status}
      </p>
      {vm.message === undefined ? null : <p class="why">{vm.message}</p>}
      {warnings.map((warning) => (
        <p key={warning} class="why">
          {warning}
        </p>
      ))}
      <Actions vm={vm} rights={rights} done={done} onDone={setDone} />
      <dl>
        <Fact term="Namespace">{vm.namespace}</Fact>
        <Fact term="Node">{vm.node}</Fact>
        <Fact term="IP">{vm.ip}</Fact>
        <Fact term="CPU">{String(vm.cpu)}</Fact>
        <Fact term="Memory">{vm.memory}</Fact>
        <Fact term="Image">{vm.image}</Fact>
        <Fact term="ISO">{vm.iso}</Fact>
        <Fact term="Configuration">{vm.vmConfig}</Fact>
        <Fact term="Pool">{vm.pool}</Fact>
        <Fact term="GPU passthrough">{vm.gpuPassthrough ? 'Yes' : 'No'}</Fact>
        <Fact term="VNC console">{vm.vncConsole ? undefined : 'Off'}</Fact>
        <Fact term="SSH port of the node">{vm.ssh === 0 ? undefined : String(vm.ssh)}</Fact>
        <Fact term="Ports">{portsOf(vm)}</Fact>
        <Fact term="Owner">{vm.owner}</Fact>
        <Fact term="Deployed">{timeOf(vm.deployDate)}</Fact>
      </dl>
      <Usage namespace={namespace} name={name} isRunning={vm.status === 'Running'} />
      {rights.has('ejectVm') ? (
        <p class="help">
          Its disk grows by the command line only: <code>{`svc3 vm resize ${name} GIB -n ${namespace}`}</code>
        </p>
      ) : null}
      <h2>Conditions</h2>
      <Problem text={problem} />
      <Table
        caption="Conditions"
        columns={conditionColumns}
        items={conditions}
        keyOf={({ type }) => type}
        empty={explanation === undefined ? (problem === undefined ? 'Loading …' : 'Not known.') : 'None yet.'}
      />
      {nodes.length === 0 || vm.node !== undefined ? null : (
        <>
          <h2>Nodes</h2>
          <Table
            caption="Nodes"
            columns={columnsFor(nodes)}
            items={nodes}
            keyOf={({ node }) => node}
            empty="None."
          />
        </>
      )}
      <h2>Events</h2>
      <Table
        caption="Events"
        columns={eventColumns}
        items={events.toReversed()}
        keyOf={({ time, reason, message }) => `${time} ${reason} ${message}`}
        empty="None, or you may not see them."
      />
    </main>
  );
}

/** Why nothing is shown of a VM. */
function absenceOf(namespace: string, name: string, isKnown: boolean, rights: Rights): string {
  if (mayNot(rights, 'listVms'))
    return `VMs of namespace ${namespace} are not for you: your account lacks the right. Who administers the cluster can give it.`;
  return isKnown ? `There is no VM ${name} in ${namespace}, or not any more.` : 'Loading …';
}

type Asked = PowerCommand | 'save' | 'commit' | 'eject' | 'delete';

function Actions({
  vm,
  rights,
  done,
  onDone: setDone,
}: {
  readonly vm: VmItem;
  readonly rights: Rights;
  /** What the last verb that was carried out has said. */
  readonly done: string;
  readonly onDone: (text: string) => void;
}) {
  const { namespace, name } = vm;
  const [asked, setAsked] = useState<Asked>();
  const [problem, setProblem] = useState<string>();
  const [hasScreen, setScreen] = useState(false);
  const [hasSerial, setSerial] = useState(false);
  const [hasLog, setLog] = useState(false);
  const close = (): void => setAsked(undefined);
  const exec = async (command: PowerCommand): Promise<void> => {
    const path = `${inNamespace(namespace, 'vms', name, 'exec')}?wait=false`;
    setDone((await call<{ message: string }>('POST', path, { command })).body.message);
  };
  const isUp = vm.status === 'Running' || vm.status === 'Suspended';
  const commands = rights.has('execVm') ? fittingCommands(vm) : [];
  const isCutting = (command: PowerCommand): boolean => consequences[command] !== undefined;
  return (
    <>
      <div class="buttons">
        {commands.map((command) =>
          isCutting(command) ? (
            <button key={command} type="button" onClick={() => setAsked(command)}>
              {titleOf(command)} …
            </button>
          ) : (
            <Act key={command} label={titleOf(command)} act={() => exec(command)} onProblem={setProblem} />
          ),
        )}
        {rights.has('openConsole') && vm.vncConsole && isUp ? (
          <button type="button" aria-pressed={hasScreen} onClick={() => setScreen(!hasScreen)}>
            Console
          </button>
        ) : null}
        {rights.has('streamSerial') && (isUp || hasSerial) ? (
          <button type="button" aria-pressed={hasSerial} onClick={() => setSerial(!hasSerial)}>
            Serial console
          </button>
        ) : null}
        {rights.has('getPageLog') && vm.node !== undefined ? (
          <button type="button" aria-pressed={hasLog} onClick={() => setLog(!hasLog)}>
            Log
          </button>
        ) : null}
        {rights.has('saveVm') && vm.status !== 'Pending' ? (
          <button type="button" onClick={() => setAsked('save')}>
            Save …
          </button>
        ) : null}
        {rights.has('commitVm') && vm.status !== 'Pending' ? (
          <button type="button" onClick={() => setAsked('commit')}>
            Commit …
          </button>
        ) : null}
        {rights.has('ejectVm') && vm.iso !== undefined ? (
          <button type="button" onClick={() => setAsked('eject')}>
            Eject ISO …
          </button>
        ) : null}
        {rights.has('deleteVm') ? (
          <button type="button" class="danger" onClick={() => setAsked('delete')}>
            Delete …
          </button>
        ) : null}
      </div>
      <p role="status" class="help">
        {done}
      </p>
      <Problem text={problem} />
      {hasScreen && isUp ? <Console namespace={namespace} name={name} /> : null}
      {hasSerial ? <Serial namespace={namespace} name={name} /> : null}
      {hasLog ? <Log namespace={namespace} name={name} /> : null}
      {asked === 'save' ? <Save vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked === 'commit' ? <Commit vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked === 'eject' ? <Eject vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked === 'delete' ? <Delete vm={vm} onClose={close} onDone={setDone} /> : null}
      {asked !== undefined && isPower(asked) ? (
        <Confirm
          title={`${titleOf(asked)} ${name}?`}
          verb={titleOf(asked)}
          act={() => exec(asked)}
          onClose={close}
        >
          <p>{consequences[asked]}</p>
        </Confirm>
      ) : null}
    </>
  );
}

function isPower(asked: Asked): asked is PowerCommand {
  return Object.hasOwn(consequences, asked);
}

interface Asking {
  readonly vm: VmItem;
  readonly onClose: () => void;
  readonly onDone: (text: string) => void;
}

function Eject({ vm: { namespace, name, iso }, onClose, onDone }: Asking) {
  const eject = async (): Promise<void> => {
    const path = inNamespace(namespace, 'vms', name, 'eject');
    onDone((await call<{ message: string }>('POST', path)).body.message);
  };
  return (
    <Confirm title={`Eject the ISO of ${name}?`} verb="Eject" act={eject} onClose={onClose}>
      <p>The CD drive becomes empty at once; a guest that reads from {iso} does not find it any more.</p>
    </Confirm>
  );
}

function Save({ vm: { namespace, name, status }, onClose, onDone }: Asking) {
  const [hasMemory, setMemory] = useState(false);
  const [imageName, setImageName] = useState(`${name}-saved`);
  const [description, setDescription] = useState('');
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const save = async (): Promise<void> => {
    const body = {
      imageName,
      ...(description === '' ? {} : { description }),
      ...(hasMemory ? { memory: true } : {}),
    };
    await call('POST', inNamespace(namespace, 'vms', name, 'save'), body);
    onDone(`The disk is being saved as image ${imageName}.`);
    onClose();
  };
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem(undefined);
    save()
      .catch((error: unknown) => setProblem(messageOf(error)))
      .finally(() => setBusy(false));
  };
  return (
    <Dialog title={`Save the disk of ${name}`} onClose={onClose}>
      <p>The disk as it is now becomes a new image. The VM goes on.</p>
      <form onSubmit={submit}>
        <div class="field">
          <label for="save-name">Name of the image</label>
          <input
            id="save-name"
            value={imageName}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setImageName(currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for="save-description">Description</label>
          <input
            id="save-description"
            value={description}
            autocomplete="off"
            onInput={({ currentTarget }) => setDescription(currentTarget.value)}
          />
        </div>
        {status === 'Running' ? (
          <label class="check">
            <input
              type="checkbox"
              checked={hasMemory}
              onChange={({ currentTarget }) => setMemory(currentTarget.checked)}
            />
            With the memory of the guest: VMs from the image go on where it was
          </label>
        ) : null}
        <Problem text={problem} />
        <div class="buttons">
          <button class="main" aria-disabled={isBusy}>
            Save
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Commit({ vm: { namespace, name, image }, onClose, onDone }: Asking) {
  const commit = async (): Promise<void> => {
    await call('POST', inNamespace(namespace, 'vms', name, 'commit'));
    onDone(`The disk is becoming the new content of image ${image ?? ''}.`);
  };
  return (
    <Confirm title={`Commit the disk of ${name}?`} verb="Commit" act={commit} onClose={onClose}>
      <p>
        The disk as it is now becomes the content of image {image}: VMs that are deployed from it after that
        have this disk. VMs that are there keep theirs.
      </p>
    </Confirm>
  );
}

function Delete({ vm: { namespace, name }, onClose, onDone }: Asking) {
  const [isDiskDeleted, setDiskDeleted] = useState(false);
  const remove = async (): Promise<void> => {
    const query = `?wait=false${isDiskDeleted ? '&deleteDisk=true' : ''}`;
    try {
      const { body, warnings } = await call<{ message?: string }>(
        'DELETE',
        `${inNamespace(namespace, 'vms', name)}${query}`,
      );
      onDone([body.message ?? '', ...warnings].join(' '));
    } catch (error) {
      // Somebody else was faster.
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  };
  return (
    <Confirm title={`Delete ${name}?`} verb="Delete" act={remove} onClose={onClose}>
      <p>
        The guest shuts down and the VM is gone for good, with everything on an Ephemeral disk that was not
        saved. A Persistent disk stays in its PersistentVolumeClaim.
      </p>
      <label class="check">
        <input
          type="checkbox"
          checked={isDiskDeleted}
          onChange={({ currentTarget }) => setDiskDeleted(currentTarget.checked)}
        />
        Delete a Persistent disk, too
      </label>
    </Confirm>
  );
}
