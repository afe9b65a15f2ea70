// RUN: nabla-opt --list-passes | filecheck %s --check-prefix=LIST
// RUN: nabla-opt --help | filecheck %s --check-prefix=HELP
// RUN: not nabla-opt %s --nabla-vamp 2>&1 | filecheck %s --check-prefix=FLAG
// RUN: not nabla-opt %s --pass-pipeline='builtin.module(nabla-vamp)' 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not nabla-opt %s --nabla-foo 2>&1 | filecheck %s --check-prefix=UNLIKE
// RUN: not nabla-opt %s --pass-pipeline='func.func(nabla-jvp)' 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not nabla-opt %s --pass-pipeline='builtin.module(cse' 2>&1 | filecheck %s --check-prefix=BALANCE
// RUN: not nabla-opt %s --nabla-expand=simplify=perhaps 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not nabla-opt %s --nabla-expand=speed=3 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not nabla-opt %s --nabla-legalize-for-iree=target=tpu 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not nabla-opt %s --cse --pass-pipeline='builtin.module(cse)' 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not nabla-opt %s.missing 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not nabla-opt %s -o %t/no/such/folder 2>&1 | filecheck %s --check-prefix=OUTPUT

// LIST: --nabla-expand {{ *}}- Expand every `ad` and `batch` region
// LIST-NEXT: --simplify {{ *}}- simplify between the levels (bool, default true)
// LIST: --nabla-vmap
// HELP: usage: nabla-opt
// HELP: --pass-pipeline
// HELP: --verify-diagnostics
// FLAG: nabla-opt: unknown command line argument '--nabla-vamp'. Did you mean --nabla-vmap{{.*}}? Try: 'nabla-opt --help'
// FLAG-NOT: Traceback
// PASS: nabla-opt: error: a pipeline requires passes that exist, got 'nabla-vamp'.
// PASS-NEXT: help: did you mean nabla-vmap
// UNLIKE: nabla-opt: unknown command line argument '--nabla-foo'. Try: 'nabla-opt --help'
// NESTED: nabla-opt: error: a pipeline requires passes that exist, got 'func.func(nabla-jvp)'
// NESTED: help: nabla-jvp runs on the module: 'builtin.module(nabla-jvp)'.
// BALANCE: nabla-opt: error: a pipeline requires balanced parentheses, got 'builtin.module(cse'.
// VALUE: nabla-opt: error: nabla-expand requires a value of type bool for simplify, got 'perhaps'.
// OPTION: nabla-opt: error: nabla-expand requires options among ['simplify'], got 'speed=3'.
// TARGET: nabla-opt: error: nabla-legalize-for-iree requires a target of cpu, vulkan, cuda, got 'tpu'.
// BOTH: nabla-opt: '--pass-pipeline' cannot be combined with flags of single passes
// MISSING: nabla-opt: cannot open input file '{{.*}}.missing': No such file or directory
// OUTPUT: nabla-opt: cannot open output file '{{.*}}': No such file or directory
module {}
