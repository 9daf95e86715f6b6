/**
 * A shell script that gives a small guest a hook, as the owner of an image does (docs/images.md): a copy of its memory says that it is like others without one.
 *
 * @param body - what it does, in lines of a shell script
 */
export function givingHook(body = 'cat > /tmp/told'): string {
  return `mkdir -p /usr/lib/svc3; cat > /usr/lib/svc3/woken << 'EOF'
#!/bin/sh
${body}
EOF
chmod 755 /usr/lib/svc3/woken; sync`;
}
