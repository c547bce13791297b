;; expect: 1.3
;; role: sampler
(import "env" "abort" (func))
