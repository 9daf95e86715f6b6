import { useEffect, useRef, useState } from 'preact/hooks';
import type { Explanation, VmItem } from '../../../wire/vmschemas.ts';
import { ApiError, call, inNamespace, messageOf } from './api.ts';
import { type Look, lookEveryMs, Looks } from './looks.ts';
import { Badge, Fact } from './parts.tsx';
import { linkTo } from './place.ts';
import { Usage } from './plots.tsx';
import { mayNot, useRights } from './rights.ts';
import { timeOf } from './time.ts';
import { canGrow } from './verbs.ts';
import { Actions } from './vmactions.tsx';
import { Explained } from './vmexplained.tsx';

interface Known {
  readonly explanation?: Explanation;
  /** Why it is not known, or not as new as it should be. */
  readonly problem?: string;
}

/** What was found without asking for the nodes, with what they said before; of another VM, or one that has a node by now, they said nothing. */
function withNodesOf(before: Explanation | undefined, found: Explanation): Explanation {
  const isOfBefore = before?.item.uid === found.item.uid && found.item.node === undefined;
  return isOfBefore && before?.nodes !== undefined ? { ...found, nodes: before.nodes } : found;
}

/** Why the VM is as it is, again whenever it changes. */
function useExplanation(namespace: string, name: string, vm: VmItem | undefined): Known {
  const [explained, setExplained] = useState<Known>({});
  const looks = useRef<Looks>(undefined);
  const uid = vm?.uid;
  useEffect(() => {
    if (uid === undefined) return undefined;
    const path = inNamespace(namespace, 'vms', name, 'explain');
    const look: Look = async (hasNodes, signal) => {
      try {
        const asked = hasNodes ? path : `${path}?nodes=false`;
        const { body } = await call<Explanation>('GET', asked, undefined, {}, signal);
        if (signal.aborted) return;
        setExplained((known) => ({ explanation: hasNodes ? body : withNodesOf(known.explanation, body) }));
      } catch (error) {
        // The stream says when the VM is gone.
        if (signal.aborted || (error instanceof ApiError && error.status === 404)) return;
        setExplained((known) => Object.assign({}, known, { problem: messageOf(error) }));
      }
    };
    const looking = new Looks(look, () => !document.hidden);
    looks.current = looking;
    const timer = setInterval(() => looking.tick(), lookEveryMs);
    return () => {
      clearInterval(timer);
      looking.stop();
    };
  }, [namespace, name, uid]);
  useEffect(() => {
    if (vm !== undefined) looks.current?.changed(vm.node !== undefined);
  }, [vm]);
  return explained;
}

/** One VM: what it is, why it is so, what may be done with it, its screen. */
export function OneVm({
  namespace,
  name,
  vm,
  isKnown,
  isListed,
}: {
  readonly namespace: string;
  readonly name: string;
  readonly vm: VmItem | undefined;
  readonly isKnown: boolean;
  /** Whether the server tells of VMs. */
  readonly isListed: boolean;
}) {
  const { explanation, problem } = useExplanation(namespace, name, vm);
  const [done, setDone] = useState('');
  const rights = useRights(namespace);
  if (vm === undefined)
    return (
      <main>
        <h1>{name}</h1>
        <p>{absenceOf(namespace, name, isKnown, isListed && !mayNot(rights, 'listVms'))}</p>
        <p role="status" class="help">
          {done}
        </p>
        <a href={linkTo('vms')}>All VMs</a>
      </main>
    );
  const warnings = explanation?.warnings ?? [];
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
      {/* Another VM of the name has dialogs, consoles and figures of its own. */}
      <Actions key={`actions-${vm.uid}`} vm={vm} rights={rights} done={done} onDone={setDone} />
      <Facts vm={vm} />
      <Usage key={`usage-${vm.uid}`} namespace={namespace} name={name} isRunning={vm.status === 'Running'} />
      {rights.has('ejectVm') && canGrow(vm) ? (
        <p class="help">
          Its disk grows by the command line only: <code>{`svc3 vm resize ${name} GIB -n ${namespace}`}</code>
        </p>
      ) : null}
      <Explained explanation={explanation} problem={problem} isPlaced={vm.node !== undefined} />
    </main>
  );
}

/** What it is, in words. */
function Facts({ vm }: { readonly vm: VmItem }) {
  return (
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
  );
}

function portsOf({ ports = [] }: VmItem): string {
  return ports
    .map(
      ({ nodePort, guestPort, protocol }) =>
        `${nodePort === undefined ? '' : `${nodePort} → `}${guestPort}/${protocol}`,
    )
    .join(', ');
}

/** Why nothing is shown of a VM. */
function absenceOf(namespace: string, name: string, isKnown: boolean, isAllowed: boolean): string {
  if (!isAllowed)
    return `VMs of namespace ${namespace} are not for you: your account lacks the right. Who administers the cluster can give it.`;
  return isKnown ? `There is no VM ${name} in ${namespace}, or not any more.` : 'Loading …';
}
