;; expect: 1.5
;; role: sampler
(memory (export "memory") 0 0)
