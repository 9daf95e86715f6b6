import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { call, isForbidden, messageOf } from './api.ts';
import { Problem } from './parts.tsx';
import { withoutSequences } from './terminal.ts';

const everyMs = 3_000;

/** The end of the log of a VM's pod, asked for again while it is shown and may be read. */
export function Log({ namespace, name }: { readonly namespace: string; readonly name: string }) {
  const [text, setText] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const view = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    let isOver = false;
    let isRefused = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const path = `/ui/namespaces/${encodeURIComponent(namespace)}/vms/${encodeURIComponent(name)}/log`;
    const look = async (): Promise<void> => {
      try {
        const { body } = await call<{ text: string }>('GET', path);
        if (!isOver) setText(withoutSequences(body.text));
        if (!isOver) setProblem(undefined);
      } catch (error) {
        isRefused = isForbidden(error);
        if (!isOver) setProblem(messageOf(error));
      }
    };
    const again = (): void => {
      void (document.hidden ? Promise.resolve() : look()).then(() => {
        if (!isOver && !isRefused) timer = setTimeout(again, everyMs);
      });
    };
    again();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [namespace, name]);
  useLayoutEffect(() => {
    if (isAtEnd.current) view.current?.scrollTo({ top: view.current.scrollHeight });
  }, [text]);
  return (
    <section aria-labelledby="log-title">
      <h2 id="log-title">Log</h2>
      <p class="help">
        The last lines that the guest has written on its serial console, and what its runner and QEMU say. All
        of them:{' '}
        <code>
          svc3 vm logs {name} -n {namespace}
        </code>
      </p>
      <Problem text={problem} />
      <pre
        ref={view}
        class="terminal"
        tabIndex={0}
        role="group"
        aria-label={`Log of ${name}`}
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
          isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 2;
        }}
      >
        {text === '' ? 'Nothing yet.' : (text ?? 'Loading …')}
      </pre>
    </section>
  );
}
