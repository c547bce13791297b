;; expect: 1.3
;; role: sampler
;; memory: own
(import "env" "memory" (memory 2 2)) (export "memory" (memory 0))
