;; expect: 1.15
;; role: sampler
;; layout: size=131072

