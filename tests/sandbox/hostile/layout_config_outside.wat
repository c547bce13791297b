;; expect: 1.15
;; role: sampler
;; layout: config=131071

