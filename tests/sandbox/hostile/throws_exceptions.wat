;; expect: 1.12
;; role: sampler
(tag)
