;; expect: 1.5
;; role: sampler
(memory (export "memory") 2 2 shared)
